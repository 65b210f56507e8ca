//go:build !shortleaves

package pki

import "time"

// Life is the validity of a certificate. It is renewed after two thirds of that. Test programs built with the tag
// shortleaves renew as often as in years of normal use.
const Life = 90 * 24 * time.Hour
