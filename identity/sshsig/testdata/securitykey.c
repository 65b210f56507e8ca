/* A library that OpenSSH loads in place of its own for FIDO tokens (sk-api.h of OpenSSH). The token is the test: each
   request goes to the socket SOCKET, as one byte and the text to sign, and the answer is a public key or a signature. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct sk_enroll_response {
	uint8_t flags;
	uint8_t *public_key;
	size_t public_key_len;
	uint8_t *key_handle;
	size_t key_handle_len;
	uint8_t *signature;
	size_t signature_len;
	uint8_t *attestation_cert;
	size_t attestation_cert_len;
	uint8_t *authdata;
	size_t authdata_len;
};

struct sk_sign_response {
	uint8_t flags;
	uint32_t counter;
	uint8_t *sig_r;
	size_t sig_r_len;
	uint8_t *sig_s;
	size_t sig_s_len;
};

enum { ED25519 = 1, TOUCHED = 1, COUNTER = 7, UNSUPPORTED = -2 };

/* ask sends a request and returns an answer of len bytes, or NULL. */
static uint8_t *ask(char what, const uint8_t *text, size_t text_len, size_t len) {
	struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = SOCKET};
	uint8_t *answer = calloc(1, len);
	size_t have = 0;
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	if (connect(s, (struct sockaddr *)&at, sizeof at) == 0 && write(s, &what, 1) == 1 &&
	    write(s, text, text_len) == (ssize_t)text_len && shutdown(s, SHUT_WR) == 0) {
		for (ssize_t n; have < len && (n = read(s, answer + have, len - have)) > 0; have += n) {
		}
	}
	close(s);
	if (have == len)
		return answer;
	free(answer);
	return NULL;
}

uint32_t sk_api_version(void) { return 0x000a0000; }

int sk_enroll(uint32_t kind, const uint8_t *challenge, size_t challenge_len, const char *application, uint8_t flags,
    const char *pin, void **options, struct sk_enroll_response **answer) {
	struct sk_enroll_response *r = calloc(1, sizeof *r);
	if (kind != ED25519 || strcmp(application, "ssh:") != 0)
		return UNSUPPORTED;
	r->flags = flags;
	r->public_key = ask('p', NULL, 0, r->public_key_len = 32);
	r->key_handle = calloc(1, r->key_handle_len = 1);
	r->signature = calloc(1, r->signature_len = 1);
	*answer = r;
	return r->public_key ? 0 : -1;
}

int sk_sign(uint32_t kind, const uint8_t *data, size_t data_len, const char *application, const uint8_t *handle,
    size_t handle_len, uint8_t flags, const char *pin, void **options, struct sk_sign_response **answer) {
	struct sk_sign_response *r = calloc(1, sizeof *r);
	if (kind != ED25519 || strcmp(application, "ssh:") != 0)
		return UNSUPPORTED;
	r->flags = TOUCHED;
	r->counter = COUNTER;
	r->sig_r = ask('s', data, data_len, r->sig_r_len = 64);
	*answer = r;
	return r->sig_r ? 0 : -1;
}

int sk_load_resident_keys(const char *pin, void **options, void ***keys, size_t *count) { return UNSUPPORTED; }
