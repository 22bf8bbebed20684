"""Operations: what is done to the records of a group, along the axes of a basis."""
