package interpreter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/d5/tengo/v2"

	"writ"
	"writ/sal/catalog"
	"writ/scripts"
)

// secret is the result of run.secret. It represents a value that no script, pass or journal ever contains. It is valid
// only for fields that take secrets, and is printed as its name.
type secret struct {
	tengo.ObjectImpl
	name catalog.Secret // with the signed version
}

func (s *secret) TypeName() string   { return "secret" }
func (s *secret) String() string     { return s.name.String() }
func (s *secret) Copy() tengo.Object { return s }

// Equals returns false for every operand, including the secret itself, so that a comparison never discloses it.
func (s *secret) Equals(tengo.Object) bool { return false }

// IndexGet fails: a secret has no fields.
func (s *secret) IndexGet(tengo.Object) (tengo.Object, error) { return nil, s.misused() }

func (s *secret) misused() error {
	return fmt.Errorf("%s can only be given to a field that takes secrets", s)
}

// runSecret returns a secret of the signed header, in the version that the header names.
func runSecret(p *pass, args []tengo.Object) (tengo.Object, error) {
	name, ok := args[0].(*tengo.String)
	if !ok {
		return nil, fmt.Errorf("run.secret takes the name of a secret, not a %s", args[0].TypeName())
	}
	i := slices.IndexFunc(p.inputs.Secrets, func(ref string) bool { return strings.HasPrefix(ref, name.Value+"@") })
	if i < 0 || !writ.ValidName(name.Value) {
		return nil, writ.Errorf(writ.CodeSecretUnknown, "the signed header names no secret %q",
			scripts.Printable(name.Value)).
			WithHint("literal names are added automatically; sign others with --secret %s", scripts.Printable(name.Value))
	}
	return &secret{name: catalog.Secret(p.inputs.Secrets[i])}, p.meter.burn(8)
}
