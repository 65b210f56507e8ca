package scripts

import (
	"slices"
	"testing"

	"writ/sal/catalog"
)

func TestBuiltInModulesHaveMembers(t *testing.T) {
	for _, name := range Modules() {
		if name != "enum" && goModules[name] == nil && len(catalog.Of(name)) == 0 {
			t.Errorf("the module %s has no members", name)
		}
	}
	for name := range goModules {
		if !slices.Contains(Modules(), name) {
			t.Errorf("the module %s cannot be imported", name)
		}
	}
}
