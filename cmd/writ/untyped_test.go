package main

// Reasons that several rows share.
const (
	byBare     = ".ci/bare types it on a machine that has only Go"
	byManualCI = "TestScripts types it in ci-manual.txtar"
	byRelease  = "TestCIStartsFromCheckout types it"
	onBootHost = "it needs the parts of an image or a host with this address; TestAMachineStartsFromAnImageAsANode and its siblings run it with others"
	lookAtNode = "it reads resources that real drivers have created on a node"
	hostSetup  = "it changes the packages or services of the machine"
	byPostgres = "it is a program of PostgreSQL, at a database server"
	onToken    = "it needs a security key; the tests of identity read the file of one"
	elsewhere  = "it needs a host or an address that the test does not have"
)

// untyped lists the printed commands that TestPrintedCommandsWork omits. It is the only such list.
var untyped = []untypedCommand{
	{"README.md", "go run ./cmd/writ demo", byBare},
	{"README.md", "go test ./...", byBare},
	{"README.md", "go run ./cmd/writ dev --data", "TestAScriptWorksOnRealDrivers starts it in a directory of the test"},
	{"README.md", "./writ man | man", "the tests do not use man; TestManualPagesPassLint gives the page to mandoc"},

	{"boot.md", "mkdir parts", onBootHost},
	{"boot.md", "cd parts", onBootHost},
	{"boot.md", "apt-get download", "it downloads packages; .ci/nightly downloads the same"},
	{"boot.md", "go build", "TestAMachineStartsFromAnImageAsANode types it"},
	{"boot.md", "writ efi", onBootHost},
	{"boot.md", "writ boot serve", onBootHost},
	{"boot.md", "writ boot assign", onBootHost},
	{"boot.md", "dd if=n1.img of=/dev/sdX", "it writes to a USB stick"},
	{"boot.md", "rm n1.token", "the command before it makes the files"},
	{"boot.md", "qemu-img convert", onBootHost},
	{"boot.md", "mkfs.btrfs", "it needs a disk"},
	{"boot.md", "writ node approve", "a machine prints it with its own fingerprint"},

	{"ci.md", "go run -C deploy/release", byRelease},
	{"ci.md", "mkdir -p /srv", byRelease},
	{"ci.md", "cp dist/", byRelease},
	{"ci.md", "sha256sum <", byRelease},
	{"ci.md", "ssh-keygen -q -t ed25519 -N '' -f ci-", byManualCI},
	{"ci.md", "writ user add plan", byManualCI},
	{"ci.md", "writ user add deploy --ci --key", byManualCI},
	{"ci.md", "writ context export", byManualCI},
	{"ci.md", "set -eu", byManualCI},
	{"ci.md", "deploy/ci/", byManualCI},
	{"ci.md", "export WRIT_", byManualCI},
	{"ci.md", "exec deploy/ci/", byManualCI},

	{"containers.md", "grep Uid", lookAtNode},
	{"containers.md", "ctr ", lookAtNode},
	{"containers.md", "nft list", lookAtNode},
	{"hosts.md", "apt-get install", hostSetup},
	{"hosts.md", "systemctl disable", hostSetup},
	{"images.md", "writ secret set registry", "TestServiceIsDeployedFromRegistry types it with a value"},
	{"images.md", "skopeo copy", elsewhere},
	{"images.md", "sha256sum web.tar", elsewhere},
	{"images.md", "scp web.tar", elsewhere},
	{"machines.md", "ps -eo", lookAtNode},
	{"networks.md", "nft list", lookAtNode},
	{"networks.md", "ip -brief", lookAtNode},
	{"oncall.md", "writ run cancel", "no run is open here; TestScripts/many types it"},
	{"oncall.md", "writ run resume", "no run has failed here; TestScripts/many types it"},
	{"people.md", "ssh-keygen -t ed25519-sk", onToken},
	{"people.md", "ssh-add id_writ", onToken},
	{"postgresql.md", "createuser", byPostgres},
	{"postgresql.md", "createdb", byPostgres},
	{"postgresql.md", "pg_", byPostgres},
	{"service.md", "", "TestServicePageWorks types it with images of the test"},
	{"sites.md", "writ coordinator add coord1", "TestACoordinatorOnLoopbackGetsTLS runs it with another address"},
	{"sites.md", "writ coord --data ./cluster", elsewhere},
	{"sites.md", "writ coord --data coord --listen 10.77.0.2:7440 --public-url", elsewhere},
	{"sites.md", "install -m 0640", "it is a hook of certbot"},
	{"webhooks.md", "writ webhook test", "it sends to the address of the example; TestEventsAreSentToWebhooksAndTraced sends to a receiver of the test"},
}
