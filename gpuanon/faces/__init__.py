"""What people use: the command line, the demonstration, the doctor, the scikit-learn estimator, the report."""
