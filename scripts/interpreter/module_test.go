package interpreter

import (
	"slices"
	"testing"

	"writ/sal/catalog"
	"writ/scripts"
)

func TestBuiltInModulesHaveMembers(t *testing.T) {
	for _, name := range scripts.Modules() {
		if name != "enum" && goModules()[name] == nil && len(catalog.Of(name)) == 0 {
			t.Errorf("the module %s has no members", name)
		}
	}
	for name := range goModules() {
		if !slices.Contains(scripts.Modules(), name) {
			t.Errorf("the module %s cannot be imported", name)
		}
	}
}
