// Package userns creates Linux user namespaces, and mounts file trees whose owners are mapped to the users of a
// namespace. It does not depend on the purpose of the users.
package userns

// Many is the number of users and groups in a namespace: all 16-bit ids, as in images.
const Many = 1 << 16
