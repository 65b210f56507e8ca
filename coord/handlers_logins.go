package coord

import (
	"context"

	"writ/coord/api/apiserver"
)

func (h loginHandlers) Challenge(
	_ context.Context, r apiserver.ChallengeRequestObject,
) (apiserver.ChallengeResponseObject, error) {
	challenge, err := h.c.logins.Challenge(*r.Body)
	return apiserver.Challenge200JSONResponse(challenge), err
}

func (h loginHandlers) Login(
	ctx context.Context, r apiserver.LoginRequestObject,
) (apiserver.LoginResponseObject, error) {
	signed, err := readSigned(r.Body)
	if err != nil {
		return nil, err
	}
	t, err := h.c.logins.Login(ctx, signed)
	return apiserver.Login200JSONResponse(t), err
}

func (h loginHandlers) NextToken(
	_ context.Context, r apiserver.NextTokenRequestObject,
) (apiserver.NextTokenResponseObject, error) {
	t, err := h.c.logins.NextToken(r.Body.Signed)
	return apiserver.NextToken200JSONResponse(t), err
}

func (h loginHandlers) NewCode(
	_ context.Context, r apiserver.NewCodeRequestObject,
) (apiserver.NewCodeResponseObject, error) {
	t, err := h.c.logins.NewCode(r.Body.Signed)
	return apiserver.NewCode200JSONResponse(t), err
}

func (h loginHandlers) Logout(
	_ context.Context, r apiserver.LogoutRequestObject,
) (apiserver.LogoutResponseObject, error) {
	if err := h.c.logins.Logout(r.Body.Signed); err != nil {
		return nil, err
	}
	return apiserver.Logout204Response{}, nil
}
