package coord

import (
	"context"

	"writ"
	"writ/coord/api"
)

func (h handlers) Challenge(_ context.Context, r api.ChallengeRequestObject) (api.ChallengeResponseObject, error) {
	challenge, err := h.c.Challenge(*r.Body)
	return api.Challenge200JSONResponse(challenge), err
}

func (h handlers) Login(ctx context.Context, r api.LoginRequestObject) (api.LoginResponseObject, error) {
	signed, err := readSigned(r.Body)
	if err != nil {
		return nil, err
	}
	t, err := h.c.Login(ctx, signed)
	return api.Login200JSONResponse(t), err
}

func (h handlers) NextToken(_ context.Context, r api.NextTokenRequestObject) (api.NextTokenResponseObject, error) {
	t, err := h.c.NextToken(r.Body.Signed)
	return api.NextToken200JSONResponse(t), err
}

func (h handlers) NewCode(ctx context.Context, _ api.NewCodeRequestObject) (api.NewCodeResponseObject, error) {
	who := viewerFrom(ctx)
	if who.session == nil {
		return nil, writ.Errorf(writ.CodeNotFound, "reading needs no login here: open %s", h.c.PublicURL)
	}
	return api.NewCode200JSONResponse(h.c.logins.offer(who.session, h.c.Now())), nil
}
