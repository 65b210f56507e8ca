//go:build !shortleaves

package pki

import "time"

// Life is the validity of a certificate. The certificate is renewed after two thirds of it. With the build tag
// shortleaves, tests see the renewals of years of normal use within minutes.
const Life = 90 * 24 * time.Hour
