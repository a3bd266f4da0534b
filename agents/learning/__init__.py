"""What any algorithm needs to learn: returns, normalizers, optimizers, schedules."""
