package images

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/serve"
	"writ/cmd/writ/internal/terminal"
	"writ/efi/boot"
	"writ/efi/disk"
)

// Paths on the disk that the firmware and systemd's stub read.
const (
	bootFile       = "EFI/BOOT/BOOTX64.EFI"
	credentialsDir = "loader/credentials"
	credentialEnd  = ".cred"
)

// spareOnDisk is the free space for more settings and another image, in bytes.
const spareOnDisk = 64 << 20

// builtDisk is the output of `writ efi disk`.
type builtDisk struct {
	Disk   string   `json:"disk"`
	Bytes  int      `json:"bytes"`
	SHA256 string   `json:"sha256"`
	Files  []string `json:"files"`
}

// ownCredential is the name of the credential with the settings from the flags of `writ efi disk`.
const ownCredential = "machine"

func efiDiskCommand(env *cli.Env) *cobra.Command {
	var source, target string
	var credentials []string
	var machine machineFlags
	c := &cobra.Command{
		Use:   "disk",
		Short: "Create a disk image with a node image, for a USB stick, a CD or a virtual machine",
		Long: `Creates an image of a whole disk for UEFI firmware: one partition, with a node image and the settings of one
machine. Write it to a USB stick with dd, or attach it to a virtual machine as a disk or CD. It is also an ISO
image. Equal inputs produce equal bytes.

--join names the file with a token from "writ token create". The token names the cluster and the datacenter to
trust, so the disk needs no other settings for them. If the disk has a token or a credential, only you can read its
image file. Next to the image it writes DISK.sha256.

A credential is a file with one setting per line, such as writ.name=n1. The flags create one for you.`,
		Example: `  writ token create --dc dc1 > n1.token
  writ efi disk --image writ-node.efi --disk n1.img --name n1 --join @n1.token --supervisor https://10.77.0.3:7441 --redis rediss://10.77.0.3:6379/0
  writ efi disk --image writ-node.efi --disk n1.img --credential n1.cred`,
		Args: cli.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			node, err := os.ReadFile(source)
			if err != nil {
				return writ.Errorf(writ.CodeUsage, "cannot read --image: %v", err).WithHint("`writ efi build` creates one")
			}
			files, perm := []disk.File{{Name: bootFile, Data: node}}, fs.FileMode(0o644)
			add := func(stem string, text []byte) {
				files, perm = append(files, disk.File{Name: path.Join(credentialsDir, stem+credentialEnd), Data: text}), 0o600
			}
			for _, name := range credentials {
				text, err := readCredential(name)
				if err != nil {
					return err
				}
				add(strings.TrimSuffix(filepath.Base(name), credentialEnd), text)
			}
			own, err := machine.credential()
			if err != nil {
				return err
			}
			if own != "" {
				add(ownCredential, []byte(own))
			}
			made, err := disk.Build(files, spareOnDisk)
			if err != nil {
				return err
			}
			if err := writeImage("disk", target, perm, made); err != nil {
				return err
			}
			d := builtDisk{Disk: target, Bytes: len(made), SHA256: digestOf(made)}
			if err := writeImage("disk", target+checksumEnd, perm, checksumOf(target, d.SHA256)); err != nil {
				return err
			}
			for _, f := range files {
				d.Files = append(d.Files, f.Name)
			}
			return env.Print(terminal.Record(d, d.Disk,
				terminal.Field{Title: "disk", Value: fmt.Sprintf("%s, %.1f MiB", d.Disk, float64(d.Bytes)/(1<<20))},
				terminal.Field{Title: "sha256", Value: d.SHA256},
				terminal.Field{Title: "files", Value: strings.Join(d.Files, " ")}))
		},
	}
	f := c.Flags()
	f.StringVar(&source, "image", "writ-node.efi", "the node image")
	f.StringVar(&target, "disk", "writ-node.img", "file to write")
	f.StringSliceVar(&credentials, "credential", nil, "file with settings of the machine (repeatable)")
	f.StringVar(&machine.join, "join", "", "@FILE with the token of this machine")
	machine.add(c)
	return c
}

// machineFlags hold the settings of a machine. The image provides a default for each empty setting.
type machineFlags struct {
	name, supervisor, redis, cluster string
	join                             string   // "@FILE"
	more                             []string // "writ.NAME=VALUE"
}

// add adds the flags of the settings that are not secret.
func (m *machineFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&m.name, "name", "", "name of the node")
	m.addShared(c)
}

// addShared adds the flags of the settings that several machines can share.
func (m *machineFlags) addShared(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&m.supervisor, "supervisor", "", "address of the supervisor's node API, https://HOST:7441")
	f.StringVar(&m.redis, "redis", "", "address of the datacenter's Redis, rediss://HOST:6379/0")
	f.StringVar(&m.cluster, "cluster", "", "id of the cluster to trust, without a token; the machine waits for approval")
	f.StringArrayVar(&m.more, "setting", nil, "another setting, such as writ.data=writ-data (repeatable)")
}

// words returns the settings except the token, in the form that a machine parses.
func (m *machineFlags) words() ([]string, error) {
	var words []string
	for _, one := range []struct {
		name, value string
		scheme      string // required for an address
	}{
		{"name", m.name, ""}, {"supervisor", m.supervisor, "https"}, {"redis", m.redis, "rediss"},
		{"cluster", m.cluster, ""},
	} {
		if one.value == "" {
			continue
		}
		if one.scheme != "" {
			if err := checkAddresses(one.name, one.value, one.scheme); err != nil {
				return nil, err
			}
		}
		words = append(words, "writ."+one.name+"="+one.value)
	}
	for _, word := range append(words, m.more...) {
		if strings.ContainsFunc(word, unicode.IsSpace) {
			return nil, writ.Errorf(writ.CodeUsage, "a setting has a space, which would end it").
				WithHint("write writ.NAME=VALUE without spaces; several values have commas between them")
		}
		if !strings.HasPrefix(word, "writ.") {
			return nil, writ.Errorf(writ.CodeUsage, "each word of --setting must begin with \"writ.\"").
				WithHint("write it as writ.data=writ-data")
		}
	}
	words = append(words, m.more...)
	var c boot.Config
	if err := c.Read(strings.Join(words, " ")); err != nil {
		return nil, err
	}
	if c.Join != "" {
		return nil, writ.Errorf(writ.CodeUsage, "a token must not be an argument: others on this machine can read it").
			WithHint("create another token, write it to a file and pass --join @FILE; revoke this one with `writ token revoke`")
	}
	return words, nil
}

// credential returns the text of a credential with the settings and the token. It returns "" if there are neither
// settings nor a token.
func (m *machineFlags) credential() (string, error) {
	words, err := m.words()
	if err != nil {
		return "", err
	}
	if m.join != "" {
		if !strings.HasPrefix(m.join, "@") {
			return "", writ.Errorf(writ.CodeUsage, "--join takes @FILE, not a token: others on this machine can read arguments").
				WithHint("`writ token create > n1.token`, then --join @n1.token")
		}
		token, err := serve.JoinToken(m.join, false)
		if err != nil {
			return "", err
		}
		words = append(words, "writ.join="+token.String())
	}
	if len(words) == 0 {
		return "", nil
	}
	return strings.Join(words, "\n") + "\n", nil
}

// checkAddresses rejects addresses that another machine cannot use, before a machine starts with them.
func checkAddresses(flag, list, scheme string) error {
	for one := range strings.SplitSeq(list, ",") {
		at, err := url.Parse(one)
		switch {
		// An error of Parse quotes the address, which may contain a password.
		case err != nil || at.Host == "" || at.Scheme != scheme:
			return writ.Errorf(writ.CodeUsage, "--%s must be an address that begins with %s://", flag, scheme).
				WithHint("nodes use TLS to other machines: docs/manual/sites.md")
		case at.User != nil:
			return writ.Errorf(writ.CodeUsage, "--%s has a password, and other users can read arguments", flag).
				WithHint("omit the password: the supervisor gives each node its own account")
		}
	}
	return nil
}

// readCredential reads the settings of a machine from a file. It rejects settings that the machine would not
// understand.
func readCredential(name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "cannot read --credential: %v", err)
	}
	if err := new(boot.Config).Read(string(text)); err != nil {
		return nil, fmt.Errorf("read --credential %s: %w", name, err)
	}
	return text, nil
}
