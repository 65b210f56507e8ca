//go:build !linux

package main

func main() { panic("a guest of tests is Linux") }
