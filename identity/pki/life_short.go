//go:build shortleaves

package pki

import "time"

// Life is how long a certificate can be used.
const Life = time.Minute
