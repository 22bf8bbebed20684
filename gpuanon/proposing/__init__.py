"""Recipes that `init` proposes: roles from headers and content, and a mask for a purpose."""
