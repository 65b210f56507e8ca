package catalog_test

import (
	"fmt"

	"writ/sal/catalog"
)

// The catalogue declares the arguments of an operation, whether it may be repeated, and its effect on existing data.
func ExampleLookup() {
	op, known := catalog.Lookup("volume.resize")
	fmt.Println(known, op.Name(), op.Effect, op.Repeat, op.Data, op.Destructive)

	// A node decodes the arguments strictly, into the struct that drivers work with.
	_, err := op.Decode(map[string]any{"size_gib": "ten"})
	fmt.Println(err)

	// Output:
	// true volume.resize alter safe adds false
	// volume.resize: size_gib must be a whole number of GiB such as 10; got "ten"
}

func ExampleOf() {
	for _, op := range catalog.Of("image") {
		fmt.Printf("%s: %s\n", op.Name(), op.Help)
	}

	// Output:
	// image.fetch: Fetches an image to the node, verifies its SHA-256 and stores it under a name.
	// image.get: Finds an image that an earlier run fetched.
	// image.delete: Deletes an image from its node. Volumes created from it stay.
}
