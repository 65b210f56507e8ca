// Package examples holds the scripts that the manual shows and that `writ demo` runs. Tests check and run all of them.
package examples

import "embed"

// Files holds the examples, "web.tengo", and their tests, "web_test.tengo".
//
//go:embed *.tengo
var Files embed.FS
