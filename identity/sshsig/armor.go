package sshsig

import (
	"bytes"
	"encoding/base64"
	"strings"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity/header"
)

const (
	// MaxSigned limits a signed text with its signatures, in bytes.
	MaxSigned = header.MaxText + 64<<10
	// maxArmor limits one armored signature, in bytes. A signature with a certificate for many principals has about 1
	// KiB.
	maxArmor = 16 << 10

	armorBegin = "-----BEGIN SSH SIGNATURE-----\n"
	armorEnd   = "-----END SSH SIGNATURE-----\n"
	armorWidth = 70 // base64 columns, as in the output of ssh-keygen
)

// Join returns the submitted form: the text, directly followed by its armored signature.
func Join(text, armored []byte) []byte {
	return append(append(make([]byte, 0, len(text)+len(armored)), text...), armored...)
}

// Split is the inverse of Join. It cuts before the last line that starts an armored signature. It checks only that such
// a line exists, and the lengths.
func Split(signed []byte) (text, armored []byte, err error) {
	if len(signed) > MaxSigned {
		return nil, nil, header.TooLarge(len(signed), MaxSigned)
	}
	at := bytes.LastIndex(signed, []byte(armorBegin))
	if at < 0 {
		return nil, nil, Malformed("the text does not end with an SSH signature")
	}
	text, armored = signed[:at:at], signed[at:]
	if len(text) > header.MaxText {
		return nil, nil, header.TooLarge(len(text), header.MaxText)
	}
	return text, armored, nil
}

// SplitAll separates a text from its signatures, and fails if there are none. The text ends where the first signature
// starts, so no line of the text itself may start like a signature.
func SplitAll(signed []byte) (text []byte, armored [][]byte, err error) {
	if len(signed) > MaxSigned {
		return nil, nil, header.TooLarge(len(signed), MaxSigned)
	}
	text, rest := signed, []byte(nil)
	if at := bytes.Index(signed, []byte("\n"+armorBegin)); at >= 0 {
		text, rest = signed[:at+1:at+1], signed[at+1:]
	}
	if len(text) > header.MaxText {
		return nil, nil, header.TooLarge(len(text), header.MaxText)
	}
	for len(rest) > 0 {
		end := bytes.Index(rest, []byte(armorEnd))
		if end < 0 {
			return nil, nil, Malformed("the last SSH signature has no end")
		}
		end += len(armorEnd)
		armored = append(armored, rest[:end:end])
		rest = rest[end:]
	}
	if len(armored) == 0 {
		return nil, nil, Malformed("the text does not end with an SSH signature")
	}
	return text, armored, nil
}

// Armor returns an armored signature. value may come from a signer outside of this package; Armor does not verify it.
func Armor(key ssh.PublicKey, namespace Namespace, value *ssh.Signature) []byte {
	blob := ssh.Marshal(sshsigBlob{
		Magic:     [len(sshsigMagic)]byte([]byte(sshsigMagic)),
		Version:   sshsigVersion,
		PublicKey: string(key.Marshal()),
		Namespace: string(namespace),
		Hash:      sshsigHash,
		Signature: string(ssh.Marshal(value)),
	})
	return armorBlob(blob)
}

func armorBlob(blob []byte) []byte {
	text := base64.StdEncoding.EncodeToString(blob)
	var b bytes.Buffer
	b.WriteString(armorBegin)
	for len(text) > 0 {
		n := min(armorWidth, len(text))
		b.WriteString(text[:n])
		b.WriteByte('\n')
		text = text[n:]
	}
	b.WriteString(armorEnd)
	return b.Bytes()
}

func unarmor(armored []byte) ([]byte, error) {
	if len(armored) > maxArmor {
		return nil, header.TooLarge(len(armored), maxArmor)
	}
	text := strings.TrimSuffix(strings.TrimPrefix(string(armored), armorBegin), armorEnd)
	blob, err := base64.StdEncoding.Strict().DecodeString(strings.ReplaceAll(text, "\n", ""))
	if err != nil || !bytes.Equal(armorBlob(blob), armored) {
		return nil, Malformed("the SSH signature is not armored as ssh-keygen does it")
	}
	return blob, nil
}

// Malformed returns SIGNATURE_MALFORMED.
func Malformed(format string, args ...any) *writ.Error {
	return writ.Errorf(writ.CodeSignatureMalformed, format, args...).
		WithHint("join text and signature with `cat text text.sig`")
}
