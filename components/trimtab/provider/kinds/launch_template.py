"""EC2 launch templates: each change is a new version, so groups move at their own pace."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from trimtab.model.errors import DeclarationError
from trimtab.model.names import Urn
from trimtab.provider.aws import Aws, AwsCallError, plain_errors, tag_list, unless_gone, user_tags
from trimtab.provider.kinds.kind import Checked, Kind, Live, Props, named

if TYPE_CHECKING:
    from mypy_boto3_ec2.type_defs import RequestLaunchTemplateDataTypeDef

ROOT_DEVICE = "/dev/xvda"
DEFAULTS = {"rootVolumeSize": 200, "encrypted": True, "metadataHttpTokens": "required"}


def check(old: Props, new: Props, urn: Urn) -> Checked:
    """Fill in the name and the safe defaults.

    Raises:
        DeclarationError: user data is given in both forms.
    """
    if new.get("userData") is not None and new.get("userDataBase64") is not None:
        raise DeclarationError("userDataBase64", "give userData or userDataBase64, not both")
    return Checked({**DEFAULTS, **named(old, new, urn)})


def template_data(inputs: Props, owner: str) -> RequestLaunchTemplateDataTypeDef:
    """The declaration in AWS's form."""
    tags = tag_list(inputs.get("tags") or {}, owner)
    data: dict[str, Any] = {
        "ImageId": inputs["imageId"],
        "InstanceType": inputs["instanceType"],
        "MetadataOptions": {"HttpTokens": inputs["metadataHttpTokens"], "HttpEndpoint": "enabled"},
        "BlockDeviceMappings": [
            {
                "DeviceName": ROOT_DEVICE,
                "Ebs": {"VolumeType": "gp3", "VolumeSize": inputs["rootVolumeSize"], "Encrypted": inputs["encrypted"]},
            }
        ],
        "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in ("instance", "volume")],
    }
    if inputs.get("userData"):
        data["UserData"] = base64.b64encode(inputs["userData"].encode()).decode()
    elif inputs.get("userDataBase64"):
        data["UserData"] = inputs["userDataBase64"]
    if inputs.get("iamInstanceProfile"):
        data["IamInstanceProfile"] = {"Name": inputs["iamInstanceProfile"]}
    if inputs.get("securityGroupIds"):
        data["SecurityGroupIds"] = list(inputs["securityGroupIds"])
    return data  # type: ignore[return-value]  # assembled from optional parts


def user_data(encoded: str | None) -> dict[str, Any]:
    """User data as text where it is text, else (gzip, say) as it travels."""
    try:
        return {"userData": base64.b64decode(encoded).decode() if encoded else None}
    except ValueError:
        return {"userDataBase64": encoded}


def declared(data: Any) -> dict[str, Any]:
    """A template version's data as the declaration that would make it."""
    ebs: Any = next((each.get("Ebs", {}) for each in data.get("BlockDeviceMappings", [])), {})
    inputs = {
        "imageId": data.get("ImageId"),
        "instanceType": data.get("InstanceType"),
        "metadataHttpTokens": data.get("MetadataOptions", {}).get("HttpTokens"),
        "rootVolumeSize": ebs.get("VolumeSize"),
        "encrypted": ebs.get("Encrypted"),
        "iamInstanceProfile": data.get("IamInstanceProfile", {}).get("Name"),
        "securityGroupIds": data.get("SecurityGroupIds") or None,
        **user_data(data.get("UserData")),
    }
    return {key: value for key, value in inputs.items() if value is not None}


def create(aws: Aws, inputs: Props, urn: Urn) -> Live:
    """Make the template, or bring one up to date that an interrupted run of ours made."""
    tags = tag_list(inputs.get("tags") or {}, urn.owner)
    try:
        with plain_errors():
            made = aws.ec2.create_launch_template(
                LaunchTemplateName=inputs["name"],
                LaunchTemplateData=template_data(inputs, urn.owner),
                TagSpecifications=[{"ResourceType": "launch-template", "Tags": tags}],  # type: ignore[misc,list-item]
            )
    except AwsCallError as error:
        if error.code != "InvalidLaunchTemplateName.AlreadyExistsException":
            raise
        return adopt(aws, inputs, urn)
    template = made["LaunchTemplate"]
    return Live(template["LaunchTemplateId"], dict(inputs), {"latestVersion": str(template["LatestVersionNumber"])})


def adopt(aws: Aws, inputs: Props, urn: Urn) -> Live:
    """Take over the template of this name if its tag says that it is ours; only a difference makes a version.

    Raises:
        AwsCallError: it belongs to somebody else.
    """
    with plain_errors():
        found = aws.ec2.describe_launch_templates(LaunchTemplateNames=[inputs["name"]])["LaunchTemplates"][0]
    if user_tags(found.get("Tags", []))[1] != urn.owner:
        raise AwsCallError(f"launch template {inputs['name']} exists and is not ours: import it or choose another name")
    live = read(aws, found["LaunchTemplateId"], inputs)
    if live is not None and live.inputs == inputs:
        return live
    return update(aws, found["LaunchTemplateId"], live.inputs if live else {}, inputs, urn)


def read(aws: Aws, identity: str, inputs: Props) -> Live | None:
    """The template's newest version."""
    key = "LaunchTemplateIds" if identity.startswith("lt-") else "LaunchTemplateNames"
    found = unless_gone(lambda: aws.ec2.describe_launch_templates(**{key: [identity]}))  # type: ignore[arg-type]
    if not found or not found["LaunchTemplates"]:
        return None
    template = found["LaunchTemplates"][0]
    with plain_errors():
        versions = aws.ec2.describe_launch_template_versions(
            LaunchTemplateId=template["LaunchTemplateId"], Versions=["$Latest"]
        )
    live = {
        "name": template["LaunchTemplateName"],
        **declared(versions["LaunchTemplateVersions"][0]["LaunchTemplateData"]),
    }
    tags, _ = user_tags(template.get("Tags", []))
    if tags or inputs.get("tags"):
        live["tags"] = tags
    return Live(template["LaunchTemplateId"], live, {"latestVersion": str(template["LatestVersionNumber"])})


def update(aws: Aws, identity: str, old: Props, new: Props, urn: Urn) -> Live:
    """Add a version; old nodes keep theirs until they are replaced."""
    with plain_errors():
        made = aws.ec2.create_launch_template_version(
            LaunchTemplateId=identity, LaunchTemplateData=template_data(new, urn.owner)
        )
        version = str(made["LaunchTemplateVersion"]["VersionNumber"])
        aws.ec2.modify_launch_template(LaunchTemplateId=identity, DefaultVersion=version)
        gone = set(old.get("tags") or {}) - set(new.get("tags") or {})
        if gone:
            aws.ec2.delete_tags(Resources=[identity], Tags=[{"Key": key} for key in gone])
        aws.ec2.create_tags(Resources=[identity], Tags=tag_list(new.get("tags") or {}, urn.owner))  # type: ignore[arg-type]
    return Live(identity, dict(new), {"latestVersion": version})


def delete(aws: Aws, identity: str) -> None:
    """Remove the template and its versions; running nodes stay."""
    unless_gone(lambda: aws.ec2.delete_launch_template(LaunchTemplateId=identity))


KIND = Kind("trimtab:aws:LaunchTemplate", check, create, read, update, delete, unstable=frozenset({"latestVersion"}))
