package workflow

import (
	"strconv"
	"strings"

	"writ"
)

// SecretUnknown returns the error about a missing secret.
func SecretUnknown(ref, project string) *writ.Error {
	return writ.Errorf(writ.CodeSecretUnknown, "project %s has no secret %s in this datacenter", project, ref).
		WithHint("`writ secret list` shows what there is; set it with `writ secret set`, then sign the script again")
}

// SplitRef splits a secret reference of a payload, such as "db-password@3", into name and version.
func SplitRef(ref string) (name string, version int) {
	name, text, _ := strings.Cut(ref, "@")
	version, _ = strconv.Atoi(text)
	return name, version
}
