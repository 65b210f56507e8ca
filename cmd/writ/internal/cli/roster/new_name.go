package roster

import "writ"

// checkNewName rejects an invalid name for a new object. A name in the form of an id is invalid, because arguments
// accept names and ids: it could refer to another object.
func checkNewName(what, name string) error {
	switch {
	case !writ.ValidName(name):
		return writ.Errorf(writ.CodeUsage, "%q cannot be the name of a %s", name, what).
			WithHint("use 1 to 63 lower-case letters, digits and hyphens, like web-1")
	case writ.ValidUUID(name):
		return writ.Errorf(writ.CodeUsage, "%q cannot be the name of a %s: it has the form of an id", name, what).
			WithHint("use a name like web-1")
	}
	return nil
}
