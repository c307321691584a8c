package main

// helpMain prints help on a topic.
func helpMain(argv []string, io stdio) int {
	usage(io.out)
	return exitOK
}
