-- +goose Up
-- Lists of runs are filtered by script and deployment. The updates below read both from the body, without JSON
-- functions. The fields have a fixed order: the lengths of the columns id to project_name give the start of the
-- deployment, and a name ends before the first character that names cannot have. In the body of a waiting run, a space
-- and the revision may follow the name of the deployment.
ALTER TABLE runs ADD COLUMN script TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN deployment TEXT NOT NULL DEFAULT '';
UPDATE runs
SET script = SUBSTR(body, 1 + LENGTH('{"id":"","datacenter":"","project":"","project_name":""' || id || datacenter || project || project_name))
WHERE body LIKE '{"id":"' || id || '","datacenter":"' || datacenter || '","project":"' || project || '","project_name":"' || project_name || '"%';
UPDATE runs SET deployment = SUBSTR(script, 16) WHERE script LIKE ',"deployment":"%';
UPDATE runs SET script = SUBSTR(LTRIM(deployment, 'abcdefghijklmnopqrstuvwxyz0123456789- '), 2) WHERE deployment <> '';
UPDATE runs SET deployment = SUBSTR(deployment, 1, LENGTH(deployment) - LENGTH(LTRIM(deployment, 'abcdefghijklmnopqrstuvwxyz0123456789-')));
UPDATE runs SET script = SUBSTR(script, 1 + LENGTH(',"signer":"","script":"' || signer))
WHERE SUBSTR(script, 1, LENGTH(',"signer":"","script":"' || signer)) = ',"signer":"' || signer || '","script":"';
UPDATE runs SET script = '' WHERE script LIKE ',%';
UPDATE runs SET script = SUBSTR(script, 1, LENGTH(script) - LENGTH(LTRIM(script, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-')));
CREATE INDEX runs_by_script ON runs (script, created, id);
CREATE INDEX runs_by_deployment ON runs (deployment, created, id);
