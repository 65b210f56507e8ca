package target_test

import (
	"fmt"

	"writ/identity/target"
)

// A target names a resource, or a prefix of names, that a signed script may delete or overwrite.
func ExampleCovered() {
	targets := []string{"volume/web-*", "machine/db"}
	fmt.Println(target.Covered(targets, "volume", "web-0"))
	fmt.Println(target.Covered(targets, "machine", "web-0"))
	fmt.Println(target.Covered(targets, "machine", "db"))
	// Output:
	// true
	// false
	// true
}
