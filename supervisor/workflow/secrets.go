package workflow

import (
	"fmt"
	"strconv"
	"strings"

	"writ"
	"writ/sal/catalog"
	"writ/supervisor/journal"
)

// SecretUnknown returns the error for a secret that a project does not have.
func SecretUnknown(ref, project string) *writ.Error {
	return writ.Errorf(writ.CodeSecretUnknown, "project %s has no secret %s in this datacenter", project, ref).
		WithHint("`writ secret list` shows what there is; set it with `writ secret set`, then sign the script again")
}

// SplitRef takes "db-password@3" apart, which is of a payload and so in proper form.
func SplitRef(ref string) (name string, version int) {
	name, text, _ := strings.Cut(ref, "@")
	version, _ = strconv.Atoi(text)
	return name, version
}

// secretsFor returns the secrets that a call names, encrypted to its node. missing says which one it cannot have.
func (t sender) secretsFor(tx *journal.Tx, c *journal.Call) (ciphertext map[string][]byte, missing *writ.Error, err error) {
	op, _ := catalog.Lookup(c.Operation)
	names := op.Args.Secrets(c.Args)
	if len(names) == 0 {
		return nil, nil, nil
	}
	ciphertext = make(map[string][]byte, len(names))
	for _, name := range names {
		one, err := t.secretFor(tx, c, string(name))
		switch code := writ.CodeOf(err); {
		case code == writ.CodeSecretUnknown || code == writ.CodeSecretUnreadable:
			missing = writ.AsError(err)
		case err != nil:
			return nil, nil, err
		default:
			ciphertext[string(name)] = one
		}
	}
	return ciphertext, missing, nil
}

func (t sender) secretFor(tx *journal.Tx, c *journal.Call, ref string) ([]byte, error) {
	name, version := SplitRef(ref)
	have, err := tx.Secret(c.Project, name, version)
	if err != nil {
		return nil, err
	}
	if have == nil {
		return nil, SecretUnknown(ref, t.run.ProjectName)
	}
	node := t.Nodes.Record(c.Node)
	if node == nil {
		return nil, fmt.Errorf("call %d of run %s is to be sent to a node that is not known", c.Seq, c.Run)
	}
	return t.Secrets.Encrypted(have, node)
}
