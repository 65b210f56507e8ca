package modules

import (
	"bytes"
	"debug/elf"
	"fmt"
	"strings"
)

// parse reads the metadata in a module's .modinfo section, which holds "key=value" entries. Kernel packages contain no
// lists of this metadata, because depmod generates the lists at installation.
func parse(name string, object []byte) (*Module, error) {
	file, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("read the module %s: %w", name, err)
	}
	section := file.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("read the module %s: it has no section .modinfo", name)
	}
	text, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("read the module %s: %w", name, err)
	}
	m := &Module{Name: normal(name)}
	for line := range strings.SplitSeq(string(text), "\x00") {
		key, value, _ := strings.Cut(line, "=")
		switch key {
		case "alias":
			m.Aliases = append(m.Aliases, normalPattern(value))
		case "depends":
			for one := range strings.SplitSeq(value, ",") {
				if one != "" {
					m.Depends = append(m.Depends, normal(one))
				}
			}
		case "softdep":
			m.softdep(value)
		case "license":
			m.License = value
		case "firmware":
			m.Firmware = append(m.Firmware, value)
		}
	}
	return m, nil
}

// softdep parses "pre: a b post: c".
func (m *Module) softdep(text string) {
	into := (*[]string)(nil)
	for word := range strings.FieldsSeq(text) {
		switch {
		case word == "pre:":
			into = &m.Before
		case word == "post:":
			into = &m.After
		case into != nil && !strings.HasSuffix(word, ":"):
			*into = append(*into, normal(word))
		}
	}
}
