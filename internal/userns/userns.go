// Package userns creates Linux user namespaces and mounts file trees with the ownership of their users. It must not
// know the users.
package userns

// Many is the number of users and groups in a namespace: all 16-bit ids, as in images.
const Many = 1 << 16
