"""Peers that need Python environments of their own: the environments, and what runs in them."""
