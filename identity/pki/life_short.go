//go:build shortleaves

package pki

import "time"

// Life is the validity of a certificate.
const Life = time.Minute
