// Package userns makes user namespaces of Linux and shows trees of files as their users have them. It must not know whose they are.
package userns

// Many is how many users and groups a namespace has: all of 16 bits, as images use them.
const Many = 1 << 16
