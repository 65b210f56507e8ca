package runs

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/signing"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/identity"
	"writ/scripts"
)

func payloadCommand(env *cli.Env) *cobra.Command {
	var o signing.OrderFlags
	var signer string
	c := &cobra.Command{
		Use:   "payload FILE",
		Short: "Print the exact bytes that a signature of a script covers",
		Long: `Prints the text to sign for a script, for people who sign with ssh-keygen alone. Append the signature to the
text, and submit the result before it expires.`,
		Example: `  writ payload web.tengo > p
  ssh-keygen -Y sign -n writ-script-v1 -f ~/.ssh/id_ed25519 p
  cat p p.sig > web.writ
  curl --data-binary @web.writ http://127.0.0.1:7440/v1/submissions`,
		Args: o.File,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := payload(cmd.Context(), env, args[0], &o,
				func(c *client.Client, r *identity.Roster) (client.Signatory, error) {
					if signer != "" {
						return namedSigner(cmd.Context(), c, r, signer, cli.IsTyped(cmd.Flag("key")))
					}
					by, err := c.Keys.Owner(cmd.Context(), r)
					if err != nil {
						return by, err
					}
					return by, by.Counts(r, time.Now())
				})
			if err != nil {
				return err
			}
			_, err = env.Out.Write(text)
			return err
		},
	}
	o.Add(env, c)
	c.Flags().StringVar(&signer, "signer", "", "your name in the roster; by default the owner of your key")
	return c
}

// namedSigner returns a member of the roster with a plain key. A certificate is not possible, because the text to sign
// names the exact certificate. If --key is set, the key must belong to the signer, because the signature would be
// refused otherwise.
func namedSigner(
	ctx context.Context, c *client.Client, r *identity.Roster, name string, withKey bool,
) (client.Signatory, error) {
	if withKey {
		owner, err := c.Keys.Owner(ctx, r)
		if err != nil {
			return owner, err
		}
		if owner.Name != name {
			return owner, writ.Errorf(writ.CodeUsage, "--key is a key of %s, and --signer names %s", owner.Name, name).
				WithHint("leave one of the two out")
		}
	}
	p := r.Principal(name)
	if p == nil {
		return client.Signatory{}, writ.Errorf(writ.CodeNotFound, "the roster has no principal %s", name).
			WithHint("%s", client.MeantPrincipal(r, name))
	}
	if len(p.Keys) == 0 && client.MayHaveCertificate(r, name) {
		return client.Signatory{}, writ.Errorf(writ.CodeUsage, "%s signs with certificates, and a text names its certificate",
			name).
			WithHint("use --key FILE instead of --signer, with the certificate beside that key")
	}
	return client.Signatory{Name: name}, nil
}

// payload returns the text to sign. signerOf returns the signer.
func payload(
	ctx context.Context, env *cli.Env, path string, o *signing.OrderFlags,
	signerOf func(*client.Client, *identity.Roster) (client.Signatory, error),
) ([]byte, error) {
	script, err := signing.ReadScript(env, path, o.Own)
	if err != nil {
		return nil, err
	}
	c, roster, err := env.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	signer, err := signerOf(c, roster)
	if err != nil {
		return nil, err
	}
	env.WarnOfRoles(roster, signer.Name) // also if the text is signed with another program
	endWithCertificate(env, signer.Certificate(roster), o)
	order, err := signing.Order(ctx, env, c, roster, script, o)
	if err != nil {
		return nil, err
	}
	if err := order.NameTargets(ctx, roster, o.Destructive.Destruction); err != nil {
		return nil, err
	}
	if o.Prune.Said {
		if err := prune(ctx, env, c, roster, &order, o); err != nil {
			return nil, err
		}
	}
	// An empty --plan is an error and not ignored: it may be the output of a command that failed.
	if o.Plan != "" || slices.Contains(o.Given(), "--plan") {
		if err := order.Bind(ctx, roster, o.Plan); err != nil {
			return nil, err
		}
	}
	if len(order.Targets) > 0 {
		env.Note("the script may destroy %s", strings.Join(terminal.SortedNames(order.Targets), ", "))
	}
	if name := order.Deployment.Name; name != "" && !strings.Contains(o.Deployment, "@") {
		env.Note("deployment %s: revision %d", name, order.Deployment.Base+1)
	}
	return order.Payload(roster, signer)
}

// prune makes the run of an order delete the resources that --prune names. Without names, the datacenter lists the
// resources that the script does not name. The user must confirm this list or must have seen it in a plan, because the
// datacenter could list any resource of the project.
func prune(
	ctx context.Context, env *cli.Env, c *client.Client, roster *identity.Roster, order *client.Order, o *signing.OrderFlags,
) error {
	plan, err := order.Plan(ctx, roster)
	if err != nil {
		return err
	}
	if err := namePruned(ctx, env, c, roster, order, o, plan); err != nil || len(o.Prune.Named) > 0 || len(order.Prune) == 0 {
		return err
	}
	if o.Plan != "" && plan.Horizon == nil { // the digest of the plan covers these deletions
		return nil
	}
	if !env.Interactive() {
		return unseenPrune(order)
	}
	return cli.ConfirmSigning(env, "delete "+cli.Count(len(order.Prune), "resource")+" at the end, with their data", "")
}

// unseenPrune returns the error for deletions that no person has seen.
func unseenPrune(order *client.Order) error {
	return writ.Errorf(writ.CodeUsage, "--prune would delete %s, and the command cannot ask for a confirmation here",
		cli.Count(len(order.Prune), "resource")).
		WithHint("`writ plan` with --prune prints the command that names them: --prune=%s", strings.Join(order.Prune, ","))
}

// namePruned sets the resources that the run of an order prunes. The flag names them; without names, the run prunes
// each owned resource that is missing from the plan.
func namePruned(
	ctx context.Context, env *cli.Env, c *client.Client, roster *identity.Roster, order *client.Order, o *signing.OrderFlags,
	plan scripts.Plan,
) error {
	if named := o.Prune.Named; len(named) > 0 {
		order.Prune = slices.Compact(slices.Sorted(slices.Values(named)))
		return nil
	}
	_, preview, err := c.Orders.Foresee(ctx, *order, roster, plan, true)
	if err != nil {
		return err
	}
	more := order.PruneKept(preview)
	if len(order.Prune) == 0 {
		env.Note("the script names all resources of the deployment: --prune deletes none")
		return nil
	}
	env.Note("at its end the run deletes these resources, unless the script names them: %s",
		strings.Join(terminal.SortedNames(order.Prune), ", "))
	if more > 0 {
		env.Warn("the run keeps %s that the script does not name, because the signed header has no room for more: "+
			"submit the script again",
			cli.Count(more, "resource"))
	}
	return nil
}

// endWithCertificate limits the validity of a submission to the validity of the signer's certificate. A submission
// after the end of the certificate is refused.
func endWithCertificate(env *cli.Env, c *identity.Certificate, o *signing.OrderFlags) {
	if c == nil {
		return
	}
	if left := time.Until(c.Until).Truncate(time.Second); left < o.Expires {
		o.Expires = max(left, time.Second)
		if slices.Contains(o.Given(), "--expires") {
			env.Note("it can be submitted for %s; then the %s expires", o.Expires, c)
		}
	}
}

func signCommand(env *cli.Env) *cobra.Command {
	var o signing.OrderFlags
	var out string
	c := &cobra.Command{
		Use:   "sign FILE",
		Short: "Check and sign a script, for another person to submit",
		Long: `Checks a script and signs it into a file. Another person can submit the file with "writ submit" or curl
until it expires. Signing works offline if this machine has already received a roster.`,
		Example: "  writ sign web.tengo -o web.writ --expires 4h\n  writ submit web.writ",
		Args:    o.File,
		RunE: func(cmd *cobra.Command, args []string) error {
			signed, by, err := sign(cmd.Context(), env, args[0], &o)
			if err != nil {
				return err
			}
			if out == "" {
				out = strings.TrimSuffix(filepath.Base(args[0]), filepath.Ext(args[0])) + signing.SignedEnding
			}
			if out == "-" {
				_, err := env.Out.Write(signed)
				return err
			}
			if err := os.WriteFile(out, signed, 0o600); err != nil {
				return writ.Errorf(writ.CodeUsage, "cannot write the submission: %v", err)
			}
			env.Done("%s is signed by %s and can be submitted for %s", out, by, o.Expires)
			return nil
		},
	}
	o.Add(env, c)
	// This flag shadows the global flag of the same name, because this command prints no data.
	c.Flags().StringVarP(&out, "output", "o", "",
		"file to write, \"-\" for standard output; the script's name with .writ if not given")
	return c
}

// sign builds and signs the text for a script.
func sign(ctx context.Context, env *cli.Env, path string, o *signing.OrderFlags) (signed []byte, by string, err error) {
	var person *client.Person
	text, err := payload(ctx, env, path, o, func(c *client.Client, r *identity.Roster) (client.Signatory, error) {
		var err error
		if person, err = c.Person(ctx, r); err != nil {
			return client.Signatory{}, err
		}
		return person.Signatory(), nil
	})
	if person != nil {
		defer person.Close()
	}
	if err != nil {
		return nil, "", err
	}
	signed, err = person.SignPayload(text)
	return signed, person.Name, err
}
