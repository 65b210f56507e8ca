package coord

import (
	"context"

	"writ/coord/api"
)

func (h loginHandlers) Challenge(_ context.Context, r api.ChallengeRequestObject) (api.ChallengeResponseObject, error) {
	challenge, err := h.c.logins.Challenge(*r.Body)
	return api.Challenge200JSONResponse(challenge), err
}

func (h loginHandlers) Login(ctx context.Context, r api.LoginRequestObject) (api.LoginResponseObject, error) {
	signed, err := readSigned(r.Body)
	if err != nil {
		return nil, err
	}
	t, err := h.c.logins.Login(ctx, signed)
	return api.Login200JSONResponse(t), err
}

func (h loginHandlers) NextToken(_ context.Context, r api.NextTokenRequestObject) (api.NextTokenResponseObject, error) {
	t, err := h.c.logins.NextToken(r.Body.Signed)
	return api.NextToken200JSONResponse(t), err
}

func (h loginHandlers) NewCode(_ context.Context, r api.NewCodeRequestObject) (api.NewCodeResponseObject, error) {
	t, err := h.c.logins.NewCode(r.Body.Signed)
	return api.NewCode200JSONResponse(t), err
}

func (h loginHandlers) Logout(_ context.Context, r api.LogoutRequestObject) (api.LogoutResponseObject, error) {
	if err := h.c.logins.Logout(r.Body.Signed); err != nil {
		return nil, err
	}
	return api.Logout204Response{}, nil
}
