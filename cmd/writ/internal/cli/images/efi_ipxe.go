package images

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
	"writ/efi/boot"
	"writ/efi/bootserver"
	"writ/efi/uki"
)

// bootScript is the name of the file that machines request from a web server.
const bootScript = "boot.ipxe"

// builtTree is the output of `writ efi ipxe`.
type builtTree struct {
	Script string `json:"script"`
	Image  string `json:"image"`
	SHA256 string `json:"sha256"`
	URL    string `json:"url"`
}

func efiIPXECommand(env *cli.Env) *cobra.Command {
	var source, dir, at string
	var machine machineFlags
	c := &cobra.Command{
		Use:   "ipxe",
		Short: "Create a directory for a web server that starts machines with iPXE",
		Long: `Writes boot.ipxe and the node image to a directory that a web server publishes at --url. Configure the
machines' DHCP server to send URL/boot.ipxe to clients that run iPXE.

The file name of the image contains its digest. A new image therefore never overwrites one that a machine is
loading. boot.ipxe is written last and names the new image. Delete images that no machine needs any more.

The settings of machines are in boot.ipxe, and every client in the network can read it. So they contain no token:
with --cluster a machine waits for approval. With http://, an attacker in the network can send another image to
machines.`,
		Example: "  writ efi ipxe --image writ-node.efi --dir /srv/boot --url https://boot.example.org/writ --cluster ID --supervisor https://10.77.0.3:7441 --redis rediss://10.77.0.3:6379/0",
		Args:    cli.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			base, err := webAddress("url", at)
			if err != nil {
				return err
			}
			node, cmdline, err := nodeImage(source)
			if err != nil {
				return err
			}
			words, err := machine.words()
			if err != nil {
				return err
			}
			digest := digestOf(node)
			name := bootserver.ImageName(digest)
			script, err := bootserver.Script(base+"/"+name, "", slices.Concat(cmdline, words))
			if err != nil {
				return err
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return writ.Errorf(writ.CodeUsage, "cannot make --dir: %v", err)
			}
			t := builtTree{
				Script: filepath.Join(dir, bootScript), Image: filepath.Join(dir, name), SHA256: digest,
				URL: base + "/" + bootScript,
			}
			if err := writeImage("dir", t.Image, 0o644, node); err != nil {
				return err
			}
			if err := writeImage("dir", t.Script, 0o644, []byte(script)); err != nil {
				return err
			}
			return env.Print(terminal.Record(t, t.Script,
				terminal.Field{Title: "script", Value: t.Script}, terminal.Field{Title: "image", Value: t.Image},
				terminal.Field{Title: "sha256", Value: t.SHA256}, terminal.Field{Title: "url", Value: t.URL}))
		},
	}
	f := c.Flags()
	f.StringVar(&source, "image", "writ-node.efi", "the node image")
	f.StringVar(&dir, "dir", "", "directory to write to")
	f.StringVar(&at, "url", "", "address at which machines find --dir, https://HOST/PATH")
	machine.addShared(c)
	_ = c.MarkFlagRequired("dir")
	_ = c.MarkFlagRequired("url")
	return c
}

// webAddress checks the URL in a flag and returns it without a trailing slash.
func webAddress(flag, text string) (string, error) {
	at, err := url.Parse(text)
	if err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" || at.User != nil || at.RawQuery != "" ||
		at.Fragment != "" || strings.ContainsAny(text, " \t\r\n$") {
		return "", writ.Errorf(writ.CodeUsage, "--%s is not the address of a web server", flag).
			WithHint("write it as https://HOST/PATH, without a password")
	}
	return strings.TrimRight(text, "/"), nil
}

// nodeImage reads a node image for network boot, and the command line in it.
func nodeImage(source string) (image []byte, cmdline []string, err error) {
	image, err = os.ReadFile(source)
	if err != nil {
		return nil, nil, writ.Errorf(writ.CodeUsage, "cannot read --image: %v", err).WithHint("`writ efi build` creates one")
	}
	text, err := uki.Cmdline(image)
	if err != nil {
		return nil, nil, fmt.Errorf("read --image %s: %w", source, err)
	}
	if cmdline = strings.Fields(text); boot.Redacted(text) != strings.Join(cmdline, " ") {
		return nil, nil, writ.Errorf(writ.CodeUsage,
			"the command line in --image has a token, which every machine in the network could read").
			WithHint("build the image without the token, and replace the token: `writ token create` makes a new one")
	}
	return image, cmdline, nil
}
