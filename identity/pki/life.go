//go:build !shortleaves

package pki

import "time"

// Life is how long a certificate can be used. It is renewed when two thirds of that are over. A program for tests that is built with the tag shortleaves
// renews as often as in years.
const Life = 90 * 24 * time.Hour
