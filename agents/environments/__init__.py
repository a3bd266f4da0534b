"""One Gymnasium environment: registration, families, wrappers, rendering and videos."""
