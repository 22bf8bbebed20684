"""New rows drawn column after column: each column from records that agree with what was drawn before."""
