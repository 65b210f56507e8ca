// Command cloud-hypervisor is no hypervisor: it is vmmstub, the program that plays one for tests, under the name that drivers look for.
package main

import (
	"os"

	"writ/internal/vmmstub/vmm"
)

func main() {
	os.Exit(vmm.Main(os.Args[1:], os.Stdout, os.Stderr))
}
