package identity_test

import (
	"fmt"

	"writ/identity"
)

// A target names a resource, or a prefix of names, that a signed script may delete or overwrite.
func ExampleCovered() {
	targets := []string{"volume/web-*", "machine/db"}
	fmt.Println(identity.Covered(targets, "volume", "web-0"))
	fmt.Println(identity.Covered(targets, "machine", "web-0"))
	fmt.Println(identity.Covered(targets, "machine", "db"))
	// Output:
	// true
	// false
	// true
}
