// Command cloud-hypervisor is not a hypervisor. It is vmmstub, a stub for tests, under the name that drivers look up.
package main

import (
	"os"

	"writ/internal/test/vmmstub/vmm"
)

func main() {
	os.Exit(vmm.Main(os.Args[1:], os.Stdout, os.Stderr))
}
