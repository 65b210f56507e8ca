package bootserver

import (
	"strings"

	"writ"
)

// ipxe is what iPXE does with an image: it loads that with a command line. again is what it does when that failed.
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

// Script is what iPXE does: it loads the image with a command line, and tries again if that fails, with the script at the address again if that is
// not "". The command line is whole, because the one in the image does not count if iPXE passes another one.
func Script(image, again string, words []string) (string, error) {
	for _, word := range words {
		if word == "||" || word == "&&" || strings.Contains(word, "${") || strings.ContainsAny(word, "\"'\\#\x00\r\n") {
			return "", writ.Errorf(writ.CodeUsage, "the command line has %q, which iPXE understands in another way", word).WithHint("leave quotes, backslashes, #, ${ and && out")
		}
	}
	next := "goto start"
	if again != "" {
		next = "chain --replace --autofree " + again + " || goto failed"
	}
	return strings.NewReplacer("IMAGE", strings.Join(append([]string{image}, words...), " "), "AGAIN", next).Replace(ipxe), nil
}

// identity is what a machine says of itself when it asks for its script, besides the address of its card.
const identity = "&uuid=${uuid}&serial=${serial:uristring}&asset=${asset:uristring}"

// askAgain is the script of a machine that has not said which one it is. netX is the card over which iPXE has loaded this.
func askAgain(base string) string {
	return "#!ipxe\nchain --replace --autofree " + base + scriptPath + "?mac=${netX/mac:hexhyp}" + identity + "\n"
}
