//go:build !shortleaves

package pki

import "time"

// Life is the validity of a certificate. The certificate is renewed after two thirds of it. With the build tag
// shortleaves, Life is a minute, so that a test of minutes covers as many renewals as years of normal use.
const Life = 90 * 24 * time.Hour
