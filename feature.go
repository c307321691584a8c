package godtrace

// featureFindings are the features of the kernel's tracing that godtrace makes
// use of.
func featureFindings() []Finding { return nil }
