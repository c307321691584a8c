//go:build !amd64

package main

func assembled(a int64, s string, b int32) int64 { return a + int64(len(s)) + int64(b) }
