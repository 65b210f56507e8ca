package bootserver

import (
	"strings"

	"writ"
)

// ipxe is the script that loads an image with a command line and starts it. AGAIN is the command after a failure.
const ipxe = `#!ipxe
:start
imgfree
kernel IMAGE || goto failed
boot || goto failed
:failed
echo The node image cannot be started. Next attempt in 10 seconds.
sleep 10
AGAIN
`

// Script returns the iPXE script that boots image with a command line. After a failure it loads the script at again, or
// repeats the attempt if again is "". The command line is complete, because it replaces the one in the image.
func Script(image, again string, words []string) (string, error) {
	for _, word := range words {
		if word == "||" || word == "&&" || strings.Contains(word, "${") || strings.ContainsAny(word, "\"'\\#\x00\r\n") {
			return "", writ.Errorf(writ.CodeUsage, "the command line contains %q, which iPXE would misinterpret", word).
				WithHint("leave quotes, backslashes, #, ${ and && out")
		}
	}
	next := "goto start"
	if again != "" {
		next = "chain --replace --autofree " + again + " || goto failed"
	}
	return strings.NewReplacer("IMAGE", strings.Join(append([]string{image}, words...), " "), "AGAIN",
		next).Replace(ipxe), nil
}

// identity lists the query parameters that identify a machine, in addition to its hardware address.
const identity = "&uuid=${uuid}&serial=${serial:uristring}&asset=${asset:uristring}"

// askAgain returns the script for a request without a hardware address: it repeats the request with one. netX is the
// card over which iPXE loaded the script.
func askAgain(base string) string {
	return "#!ipxe\nchain --replace --autofree " + base + scriptPath + "?mac=${netX/mac:hexhyp}" + identity + "\n"
}
