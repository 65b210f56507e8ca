package scripts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/d5/tengo/v2"

	"writ"
	"writ/sal/catalog"
)

// secret is what run.secret returns: it stands for a value that no script, pass or journal ever holds. It can be given to a field of an
// operation that takes secrets, and be shown as its name, and nothing else.
type secret struct {
	tengo.ObjectImpl
	name catalog.Secret // with the version that was signed
}

func (s *secret) TypeName() string   { return "secret" }
func (s *secret) String() string     { return s.name.String() }
func (s *secret) Copy() tengo.Object { return s }

// Equals is false: a secret is equal to nothing, not even to itself, so that no comparison tells anything of it.
func (s *secret) Equals(tengo.Object) bool { return false }

// IndexGet refuses: there is nothing in a secret.
func (s *secret) IndexGet(tengo.Object) (tengo.Object, error) { return nil, s.misused() }

func (s *secret) misused() error {
	return fmt.Errorf("%s can only be given to a field that takes secrets", s)
}

// runSecret returns a secret that the signed header names, in the version that it names.
func runSecret(p *pass, args []tengo.Object) (tengo.Object, error) {
	name, ok := args[0].(*tengo.String)
	if !ok {
		return nil, fmt.Errorf("run.secret takes the name of a secret, not a %s", args[0].TypeName())
	}
	i := slices.IndexFunc(p.inputs.Secrets, func(ref string) bool { return strings.HasPrefix(ref, name.Value+"@") })
	if i < 0 || !writ.ValidName(name.Value) {
		return nil, writ.Errorf(writ.CodeSecretUnknown, "the signed header names no secret %q", printable(name.Value)).
			WithHint("a name that is written out is found by itself; sign others with --secret %s", printable(name.Value))
	}
	return &secret{name: catalog.Secret(p.inputs.Secrets[i])}, p.burn(8)
}
