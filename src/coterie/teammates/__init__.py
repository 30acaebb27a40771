"""teammates."""
