package identity

import (
	"encoding/base64"
	"fmt"
	"strings"

	"writ"
	"writ/identity/header"
)

// The decisions about a secret.
const (
	DecisionSetSecret    = "set"
	DecisionRemoveSecret = "remove"
)

// MaxSecretVersion limits the versions of a secret.
const MaxSecretVersion = 999_999_999

// SecretRef formats a version of a secret as in payload headers: "db-password@3".
func SecretRef(name string, version int) string { return fmt.Sprintf("%s@%d", name, version) }

// secretName returns the part before the version.
func secretName(ref string) string {
	name, _, _ := strings.Cut(ref, "@")
	return name
}

// SecretChange is the content of a statement about a secret. Setting a secret creates exactly the named version, so an
// attacker who delays or reorders statements cannot choose the newest value. Removing a secret deletes this version and
// all earlier ones, but not a later version, because the signer may not have known about it.
type SecretChange struct {
	Project    writ.ProjectID
	Name       string
	Version    int
	Ciphertext []byte // the value, encrypted for the supervisor (package identity/secret); nil for a removal
}

// Statement sets the subject, decision and parameters of a statement with the change.
func (c SecretChange) Statement(s *Statement) {
	s.Subject, s.Decision = "secret/"+c.Name, DecisionRemoveSecret
	s.Params = map[string]any{"project": string(c.Project), "version": int64(c.Version)}
	if c.Ciphertext != nil {
		s.Decision = DecisionSetSecret
		s.Params["sealed"] = base64.StdEncoding.EncodeToString(c.Ciphertext)
	}
}

// ParseSecretChange parses the change in a statement about a secret.
func ParseSecretChange(s *Statement) (SecretChange, error) {
	c := SecretChange{Name: s.ID(), Project: projectOfSecret(s)}
	version, ok := s.Params["version"].(int64)
	if !ok || version < 1 || version > MaxSecretVersion {
		return SecretChange{}, header.Malformed("a secret needs the parameter \"version\", from 1 to %d",
			MaxSecretVersion)
	}
	c.Version = int(version)
	if c.Project != s.Seen.Project {
		return SecretChange{}, header.Malformed("the parameter \"project\" is %q, the signer saw the project %q",
			header.Clip(string(c.Project)), header.Clip(string(s.Seen.Project)))
	}
	if !writ.ValidUUID(string(c.Project)) {
		return SecretChange{}, header.Malformed("a secret needs the parameter \"project\", the id of a project")
	}
	if s.Decision == DecisionRemoveSecret {
		if len(s.Params) != 2 {
			return SecretChange{}, header.Malformed("removing a secret needs exactly the parameters project and version")
		}
		return c, nil
	}
	text, ok := s.Params["sealed"].(string)
	if !ok || text == "" || len(s.Params) != 3 {
		return SecretChange{}, header.Malformed("setting a secret needs exactly the parameters project, sealed and version")
	}
	var err error
	c.Ciphertext, err = base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || base64.StdEncoding.EncodeToString(c.Ciphertext) != text { // the decoder ignores line feeds
		return SecretChange{}, header.Malformed("the parameter \"sealed\" is not base64")
	}
	return c, nil
}

func projectOfSecret(s *Statement) writ.ProjectID {
	project, _ := s.Params["project"].(string)
	return writ.ProjectID(project)
}
