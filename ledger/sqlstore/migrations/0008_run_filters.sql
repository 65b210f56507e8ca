-- +goose Up
-- Lists of runs are selected by script and deployment. The body of a run has both after its ids, always in the same order: what the columns
-- before them hold says where they begin, and a name ends with its last character that names may have. A deployment that still waits is
-- followed by its revision there.
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
