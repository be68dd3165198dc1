"""What ``scrubjay doctor`` looks at, a module for each part of the patient."""
