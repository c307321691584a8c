//go:build !amd64

package process

var stubProgram []byte
