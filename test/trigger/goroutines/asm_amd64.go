package main

// assembled is in assembly: its arguments are on the stack.
func assembled(a int64, s string, b int32) int64
